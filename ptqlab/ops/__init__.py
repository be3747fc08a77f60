"""What is known of operators: the ONNX operators (`table`) and the integer operators they become (`integer`)."""
