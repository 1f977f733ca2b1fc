"""What heads do on text: the model is run eagerly, statistics are streamed, maps are let go."""
