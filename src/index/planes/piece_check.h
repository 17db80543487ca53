// Where clustered keys look for what all indexes check their pieces with.
#ifndef ATTNDB_INDEX_PLANES_PIECE_CHECK_H_
#define ATTNDB_INDEX_PLANES_PIECE_CHECK_H_

#include "index/piece_check.h"

#endif  // ATTNDB_INDEX_PLANES_PIECE_CHECK_H_
