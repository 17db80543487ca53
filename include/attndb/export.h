// Symbol visibility: what libattndb exports. Everything else in the library is hidden.
#ifndef ATTNDB_EXPORT_H_
#define ATTNDB_EXPORT_H_

#if defined(ATTNDB_BUILDING_LIBRARY)
#define ATTNDB_EXPORT [[gnu::visibility("default")]]
#else
#define ATTNDB_EXPORT
#endif

#endif  // ATTNDB_EXPORT_H_
