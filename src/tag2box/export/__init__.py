"""The detector for deployment: one ONNX file that needs neither PyTorch nor tag2box."""
