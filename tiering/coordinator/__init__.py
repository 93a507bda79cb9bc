"""The coordinator: assigns tables to tierers and stores everything durably."""
