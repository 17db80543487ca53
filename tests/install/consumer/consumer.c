/* A C program outside of attndb's tree: opens a store and lists it. Usage: consumer_c FOLDER */
#include <attndb/c_api.h>
#include <stdio.h>

int main(int argc, char** argv) {
  attndb_db* db = NULL;
  char* json = NULL;
  if (argc != 2) return 2;
  if (attndb_db_open(argv[1], NULL, &db) != ATTNDB_OK || attndb_db_list(db, &json) != ATTNDB_OK) {
    fprintf(stderr, "%s\n", attndb_last_error());
    attndb_db_close(db);
    return 1;
  }
  printf("attndb %s\n", attndb_version());
  attndb_free(json);
  attndb_db_close(db);
  return 0;
}
