"""Stories of a whole service, for tests that ask about it as a person does."""
