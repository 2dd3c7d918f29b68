"""Ways to compute a layer of LSTM; the reference itself multiplies with the weights of all four gates at once."""
