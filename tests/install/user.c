/* A user's program, valid in C99 and in C++: calls the library, checks what it says of itself. Its
 * argument is the version that the package file states. */
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

int main(int argc, char **argv)
{
    int good = argc == 2 && strcmp(argv[1], TUTTI_VERSION) == 0 &&
               strcmp(tutti_status_string(TUTTI_ERR_ARG), "TUTTI_ERR_ARG") == 0 &&
               tutti_type_size(TUTTI_F64) == sizeof(double);
    if (!good)
        fprintf(stderr, "the installed library does not answer as its header says\n");
    return good ? 0 : 1;
}
