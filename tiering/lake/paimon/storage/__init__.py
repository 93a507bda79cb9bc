"""Storages of a Paimon warehouse: `local` is a folder of this machine, `s3` a bucket. `base` declares what tables need of both.

On S3, executors and driver write and read files with PyArrow. Metadata goes through boto3, on the driver only: a commit is a conditional
PUT, which PyArrow lacks.
"""
