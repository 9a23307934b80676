"""What a ZooKeeper ensemble keeps: backed up, compared and written back, znode by znode."""
