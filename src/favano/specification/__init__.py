"""What a run is: the parts of a specification, their flat keys, files and presets."""
