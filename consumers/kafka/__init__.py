"""The stages over Apache Kafka, through FastStream's broker."""

from livedex.consumers.kafka.broker import KafkaBroker
from livedex.consumers.kafka.consumer_lag import KafkaConsumerLag

__all__ = ["KafkaBroker", "KafkaConsumerLag"]
