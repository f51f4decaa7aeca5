"""The paper's mathematics as pure functions on tensors. docs/method.md leads from each equation to its function."""
