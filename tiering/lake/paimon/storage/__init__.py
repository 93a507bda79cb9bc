"""Where a Paimon warehouse is: `local` a folder of this machine, `s3` a bucket. `base` says what tables need of either.

On S3 files are written and read by PyArrow, on executors as on the driver. Metadata goes through boto3, on the driver alone: a commit is a
conditional PUT, which PyArrow does not have.
"""
