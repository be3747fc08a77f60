"""Networks and photos that tests and benchmarks measure the product on."""
