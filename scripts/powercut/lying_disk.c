/* A disk that says "written" and has written nothing: direct and synchronous writes become plain
 * ones, syncs do nothing. `make powercut` preloads it once, to prove that the test sees losses.
 * It is no part of the server, so nobody can switch it on there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>

typedef int (*open_function)(const char *, int, ...);

static int open_lying(const char *name, const char *path, int flags, mode_t mode)
{
	open_function real = (open_function)dlsym(RTLD_NEXT, name);

	return real(path, flags & ~(O_DIRECT | O_SYNC | O_DSYNC), mode);
}

#define LYING(name)                                                    \
	int name(const char *path, int flags, ...)                     \
	{                                                              \
		va_list rest;                                          \
		mode_t mode;                                           \
                                                                       \
		va_start(rest, flags);                                 \
		mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
		va_end(rest);                                          \
		return open_lying(#name, path, flags, mode);           \
	}

LYING(open)
LYING(open64)

int fsync(int fd)
{
	(void)fd;
	return 0;
}

int fdatasync(int fd)
{
	(void)fd;
	return 0;
}
