"""UNets: noise predictors that go down to coarse features and up again, with skips between."""
