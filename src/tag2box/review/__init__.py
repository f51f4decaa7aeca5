"""The review page: a person looks at what the nets have found, accepts, corrects or rejects it."""
