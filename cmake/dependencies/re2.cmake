# Regular expressions in linear time, for `attndb serve --ignore-line`. Target: RE2::re2.
attndb_find(RE2)
