"""The stages over Apache Kafka, through FastStream's broker."""

from consumers.kafka.broker import KafkaBroker
from consumers.kafka.lag import KafkaBacklog

__all__ = ["KafkaBacklog", "KafkaBroker"]
