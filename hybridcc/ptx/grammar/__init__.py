"""The grammar of PTX by recursive descent: one file a part, each a set of functions over one Cursor."""
