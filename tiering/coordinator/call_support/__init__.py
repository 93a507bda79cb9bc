"""Functions that the effects of several procedures share: the coordinator's parts, changes of records, leases, requests for upkeep."""
