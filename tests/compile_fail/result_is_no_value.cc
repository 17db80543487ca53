// A Result is asked before its value is taken, or ends the process by name: never by chance.
// Error: conversion from|no viable conversion
#include <string>

#include "attndb/db.h"

attndb::DB OpenOrDie(const std::string& path) {
#ifdef ATTNDB_MISUSE
  attndb::DB db = attndb::DB::Open(path);
#else
  attndb::DB db = *attndb::DB::Open(path);
#endif
  return db;
}
