"""Questions, passes and answers: pure logic that is tested on scripted scores, without a model."""
