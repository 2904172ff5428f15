"""What requests do with objects: read, watch, change, delete and bind them, by writes that one executor runs."""
