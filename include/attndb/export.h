// Symbol visibility: ATTNDB_EXPORT marks the exported symbols of libattndb. All others are hidden.
#ifndef ATTNDB_EXPORT_H_
#define ATTNDB_EXPORT_H_

#if defined(ATTNDB_BUILDING_LIBRARY)
#define ATTNDB_EXPORT [[gnu::visibility("default")]]
#else
#define ATTNDB_EXPORT
#endif

#endif  // ATTNDB_EXPORT_H_
