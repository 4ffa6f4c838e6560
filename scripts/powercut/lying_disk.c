/* A disk that lies about the log: direct and synchronous writes to files below `wal/` become plain
 * ones into the page cache, and their syncs do nothing. Metadata and segments are left alone, so
 * that the store opens and the loss is one of rows. `make powercut` preloads it once, to prove that
 * the test sees losses. It is no part of the server, so nobody can switch it on there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

typedef int (*open_function)(const char *, int, ...);
typedef int (*sync_function)(int);

static int is_log(const char *path)
{
	return strstr(path, "/wal/") != NULL;
}

static int open_lying(const char *name, const char *path, int flags, mode_t mode)
{
	open_function real = (open_function)dlsym(RTLD_NEXT, name);

	if (is_log(path))
		flags &= ~(O_DIRECT | O_SYNC | O_DSYNC);
	return real(path, flags, mode);
}

#define LYING_OPEN(name)                                               \
	int name(const char *path, int flags, ...)                     \
	{                                                              \
		va_list rest;                                          \
		mode_t mode = 0;                                       \
                                                                       \
		va_start(rest, flags);                                 \
		if (flags & (O_CREAT | O_TMPFILE))                     \
			mode = va_arg(rest, mode_t);                   \
		va_end(rest);                                          \
		return open_lying(#name, path, flags, mode);           \
	}

LYING_OPEN(open)
LYING_OPEN(open64)

static int sync_lying(const char *name, int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length > 0) {
		path[length] = '\0';
		if (is_log(path))
			return 0;
	}
	return ((sync_function)dlsym(RTLD_NEXT, name))(fd);
}

int fsync(int fd)
{
	return sync_lying("fsync", fd);
}

int fdatasync(int fd)
{
	return sync_lying("fdatasync", fd);
}
