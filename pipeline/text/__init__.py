"""Rules about text that several layers share."""
