/*
 * Journals what a program does to the files below one directory, and makes calls fail on demand.
 *
 * Preloaded (LD_PRELOAD), it stands before libc. A call that changes a file or a name below POWERLOSS_ROOT is done and
 * appended to POWERLOSS_JOURNAL, both under one lock, so that the journal has the order in which the changes
 * happened. journal.rs reads it; the layout of a record is below and there.
 *
 * Rules:
 * - System calls are made raw: what libc does inside would come back here, or not, as it likes.
 * - No allocation: the program's allocator may be calling us.
 * - Files are known by inode number. A descriptor's number may be closed and used again inside libc, unseen.
 * - What is not modelled (writable shared mappings, stdio, copying inside the kernel) is journaled as a violation,
 *   which fails the test; nothing passes in silence. stdio on a descriptor (RocksDB's LOG) is not seen at all: the
 *   reader ignores those files by name.
 * - fsync does not sync: the journal is what decides what a power loss takes. It only takes time (POWERLOSS_SYNC_MICROS).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum operation {
    CREATE = 1,     /* inode; name */
    WRITE = 2,      /* inode, offset; bytes */
    TRUNCATE = 3,   /* inode, size */
    ALLOCATE = 4,   /* inode, end: the file is at least so long */
    SYNC_BEGIN = 5, /* inode, number of the call */
    SYNC_END = 6,   /* inode, number of the call, errno or 0 */
    RENAME = 7,     /* old name, 0, new name */
    LINK = 8,       /* inode; old name, 0, new name */
    UNLINK = 9,     /* name */
    MAKE_DIRECTORY = 10, /* inode; name */
    REMOVE_DIRECTORY = 11, /* name */
    VIOLATION = 12, /* what */
    FAULT = 13,     /* a call was made to fail: inode, errno; name */
};

/* Little-endian, followed by `length` bytes. */
struct record {
    uint32_t length;
    uint32_t operation;
    uint64_t inode;
    uint64_t first;
    uint64_t second;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static int journal = -1;
static long sync_micros;
static uint64_t syncs;

/* POWERLOSS_FAULT=sync|write:errno:part of the path:which of the calls that match, from 1:how many of them */
static struct {
    int active, is_sync, error;
    char part[64];
    long first, count, seen;
} fault;

__attribute__((constructor)) static void start(void) {
    const char *directory = getenv("POWERLOSS_ROOT"), *path = getenv("POWERLOSS_JOURNAL");
    if (!directory || !path) return;
    root_length = strlen(directory);
    if (root_length == 0 || root_length >= sizeof root) return;
    memcpy(root, directory, root_length + 1);
    /* High up, where no program that counts its descriptors looks. */
    int opened = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    journal = syscall(SYS_fcntl, opened, F_DUPFD_CLOEXEC, 900);
    syscall(SYS_close, opened);
    if (getenv("POWERLOSS_SYNC_MICROS")) sync_micros = atol(getenv("POWERLOSS_SYNC_MICROS"));
    const char *wanted = getenv("POWERLOSS_FAULT");
    char kind[8];
    if (wanted && sscanf(wanted, "%7[a-z]:%d:%63[^:]:%ld:%ld", kind, &fault.error, fault.part, &fault.first, &fault.count) == 5) {
        fault.active = 1;
        fault.is_sync = strcmp(kind, "sync") == 0;
    }
}

/* ---- what is below the root ---------------------------------------------------------------------------- */

/* The name below the root, "" for the root itself; 0 if it is elsewhere. */
static const char *below(int directory, const char *path, char *buffer) {
    if (journal < 0 || !path) return 0;
    if (path[0] != '/') {
        ssize_t length;
        if (directory == AT_FDCWD) {
            length = syscall(SYS_getcwd, buffer, PATH_MAX) - 1;
        } else {
            char link[40];
            snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
            length = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, PATH_MAX - 1);
        }
        if (length < 0 || length + strlen(path) + 2 > PATH_MAX) return 0;
        buffer[length] = '/';
        strcpy(buffer + length + 1, path);
        path = buffer;
    }
    if (strncmp(path, root, root_length) != 0) return 0;
    path += root_length;
    if (*path != 0 && *path != '/') return 0;
    while (*path == '/') path++;
    return path;
}

/* Inodes of regular files and directories below the root that were opened: open addressing, 0 is free, 1 was deleted. */
#define SLOTS 65536
static uint64_t tracked[SLOTS];

static int is_tracked(uint64_t inode) {
    for (size_t at = inode % SLOTS; tracked[at] != 0; at = (at + 1) % SLOTS)
        if (tracked[at] == inode) return 1;
    return 0;
}

static void track(uint64_t inode, int yes) {
    size_t at = inode % SLOTS, steps = 0;
    for (; tracked[at] != 0; at = (at + 1) % SLOTS) {
        if (tracked[at] == inode) {
            if (!yes) tracked[at] = 1;
            return;
        }
        if (++steps == SLOTS) abort();
    }
    if (yes) tracked[at] = inode;
}

static int status(int descriptor, struct stat *found) {
    return syscall(SYS_newfstatat, descriptor, "", found, AT_EMPTY_PATH);
}

static int status_of(int directory, const char *path, struct stat *found) {
    return syscall(SYS_newfstatat, directory, path, found, AT_SYMLINK_NOFOLLOW);
}

/* Whether changes through the descriptor are ours to journal; its inode number. Called with the lock. */
static int ours(int descriptor, uint64_t *inode) {
    struct stat found;
    if (journal < 0 || status(descriptor, &found) != 0) return 0;
    if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) return 0;
    *inode = found.st_ino;
    return is_tracked(found.st_ino);
}

/* ---- the journal ----------------------------------------------------------------------------------------- */

static void append_parts(uint32_t operation, uint64_t inode, uint64_t first, uint64_t second, struct iovec *parts, int count) {
    size_t length = 0;
    for (int at = 1; at <= count; at++) length += parts[at].iov_len;
    struct record record = {length, operation, inode, first, second};
    parts[0] = (struct iovec){&record, sizeof record};
    ssize_t written = syscall(SYS_writev, journal, parts, count + 1);
    /* A journal with a hole would prove nothing. */
    if (written != (ssize_t)(sizeof record + length)) abort();
}

static void append(uint32_t operation, uint64_t inode, uint64_t first, uint64_t second, const void *bytes, size_t length) {
    struct iovec parts[2] = {{0}, {(void *)bytes, length}};
    append_parts(operation, inode, first, second, parts, 1);
}

static void append_name(uint32_t operation, uint64_t inode, const char *name) {
    append(operation, inode, 0, 0, name, strlen(name));
}

static void append_names(uint32_t operation, uint64_t inode, const char *old, const char *new) {
    struct iovec parts[3] = {{0}, {(void *)old, strlen(old) + 1}, {(void *)new, strlen(new)}};
    append_parts(operation, inode, 0, 0, parts, 2);
}

static void violation(const char *what) {
    append_name(VIOLATION, 0, what);
}

static void begin(void) { pthread_mutex_lock(&lock); }

static long end(long result) {
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return result;
}

/* Whether this call is the one to fail. Called with the lock. */
static int fails(int is_sync, int descriptor, uint64_t inode) {
    if (!fault.active || fault.is_sync != is_sync) return 0;
    char link[40], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!strstr(path + root_length, fault.part)) return 0;
    fault.seen++;
    if (fault.seen < fault.first || fault.seen >= fault.first + fault.count) return 0;
    append(FAULT, inode, fault.error, 0, path, length);
    return 1;
}

/* ---- names ------------------------------------------------------------------------------------------------- */

static int do_open(int directory, const char *path, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    const char *name = below(directory, path, buffer);
    if (journal < 0) return syscall(SYS_openat, directory, path, flags, mode);
    begin();
    struct stat before, after;
    int existed = name && (flags & O_CREAT) && status_of(directory, path, &before) == 0;
    int opened = syscall(SYS_openat, directory, path, flags, mode);
    if (opened < 0) return end(opened);
    if (status(opened, &after) == 0 && (S_ISREG(after.st_mode) || S_ISDIR(after.st_mode))) {
        /* An inode number that another file had before is followed no longer. */
        track(after.st_ino, name != 0);
        if (name && (flags & O_TMPFILE) != O_TMPFILE) {
            if ((flags & O_CREAT) && !existed) append_name(CREATE, after.st_ino, name);
            else if (flags & O_TRUNC) append(TRUNCATE, after.st_ino, 0, 0, "", 0);
        }
    }
    return end(opened);
}

static mode_t mode_argument(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define OPEN(function)                                   \
    int function(const char *path, int flags, ...) {     \
        va_list arguments;                               \
        va_start(arguments, flags);                      \
        mode_t mode = mode_argument(flags, arguments);   \
        va_end(arguments);                               \
        return do_open(AT_FDCWD, path, flags, mode);     \
    }
#define OPEN_AT(function)                                               \
    int function(int directory, const char *path, int flags, ...) {     \
        va_list arguments;                                              \
        va_start(arguments, flags);                                     \
        mode_t mode = mode_argument(flags, arguments);                  \
        va_end(arguments);                                              \
        return do_open(directory, path, flags, mode);                   \
    }
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)
int creat(const char *path, mode_t mode) { return do_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

int renameat2(int old_directory, const char *old, int new_directory, const char *new, unsigned flags) {
    char old_buffer[PATH_MAX], new_buffer[PATH_MAX];
    const char *old_name = below(old_directory, old, old_buffer), *new_name = below(new_directory, new, new_buffer);
    begin();
    long result = syscall(SYS_renameat2, old_directory, old, new_directory, new, flags);
    if (result == 0 && (old_name || new_name)) {
        if (!old_name || !new_name || (flags & RENAME_EXCHANGE)) violation("rename across the root, or an exchange");
        else append_names(RENAME, 0, old_name, new_name);
    }
    return end(result);
}
int renameat(int old_directory, const char *old, int new_directory, const char *new) {
    return renameat2(old_directory, old, new_directory, new, 0);
}
int rename(const char *old, const char *new) { return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0); }

int linkat(int old_directory, const char *old, int new_directory, const char *new, int flags) {
    char old_buffer[PATH_MAX], new_buffer[PATH_MAX];
    const char *old_name = below(old_directory, old, old_buffer), *new_name = below(new_directory, new, new_buffer);
    begin();
    long result = syscall(SYS_linkat, old_directory, old, new_directory, new, flags);
    struct stat found;
    if (result == 0 && new_name) {
        if (!old_name || status_of(new_directory, new, &found) != 0) violation("link from outside the root");
        else append_names(LINK, found.st_ino, old_name, new_name);
    }
    return end(result);
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int symlinkat(const char *target, int directory, const char *path) {
    char buffer[PATH_MAX];
    begin();
    if (below(directory, path, buffer)) violation("symbolic link");
    return end(syscall(SYS_symlinkat, target, directory, path));
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

int unlinkat(int directory, const char *path, int flags) {
    char buffer[PATH_MAX];
    const char *name = below(directory, path, buffer);
    begin();
    long result = syscall(SYS_unlinkat, directory, path, flags);
    if (result == 0 && name) append_name(flags & AT_REMOVEDIR ? REMOVE_DIRECTORY : UNLINK, 0, name);
    return end(result);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    int result = unlink(path);
    return result != 0 && errno == EISDIR ? rmdir(path) : result;
}

int mkdirat(int directory, const char *path, mode_t mode) {
    char buffer[PATH_MAX];
    const char *name = below(directory, path, buffer);
    begin();
    long result = syscall(SYS_mkdirat, directory, path, mode);
    struct stat made;
    if (result == 0 && name && status_of(directory, path, &made) == 0) {
        track(made.st_ino, 1);
        append_name(MAKE_DIRECTORY, made.st_ino, name);
    }
    return end(result);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* ---- contents ------------------------------------------------------------------------------------------------ */

static void wrote(int descriptor, uint64_t inode, off_t offset, const struct iovec *parts, int count, ssize_t written) {
    if (offset < 0) offset = syscall(SYS_lseek, descriptor, 0, SEEK_CUR) - written;
    for (int at = 0; at < count && written > 0; at++) {
        size_t length = parts[at].iov_len < (size_t)written ? parts[at].iov_len : (size_t)written;
        if (length > 0) append(WRITE, inode, offset, 0, parts[at].iov_base, length);
        offset += length;
        written -= length;
    }
}

/* `offset` is -1 for a write at the descriptor's own place. */
static ssize_t do_write(int descriptor, const struct iovec *parts, int count, off_t offset) {
    uint64_t inode;
    struct stat found;
    /* Sockets and terminals are not held up. */
    if (journal < 0 || status(descriptor, &found) != 0 || !S_ISREG(found.st_mode))
        return offset < 0 ? syscall(SYS_writev, descriptor, parts, count)
                          : syscall(SYS_pwritev, descriptor, parts, count, offset, 0);
    begin();
    int journaled = ours(descriptor, &inode);
    if (journaled && fails(0, descriptor, inode)) {
        errno = fault.error;
        return end(-1);
    }
    ssize_t written = offset < 0 ? syscall(SYS_writev, descriptor, parts, count)
                                 : syscall(SYS_pwritev, descriptor, parts, count, offset, 0);
    if (journaled && written > 0) wrote(descriptor, inode, offset, parts, count, written);
    return end(written);
}

ssize_t write(int descriptor, const void *bytes, size_t length) {
    struct iovec part = {(void *)bytes, length};
    return do_write(descriptor, &part, 1, -1);
}
ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t offset) {
    struct iovec part = {(void *)bytes, length};
    return do_write(descriptor, &part, 1, offset);
}
ssize_t pwrite64(int descriptor, const void *bytes, size_t length, off64_t offset) {
    return pwrite(descriptor, bytes, length, offset);
}
ssize_t writev(int descriptor, const struct iovec *parts, int count) { return do_write(descriptor, parts, count, -1); }
ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset) {
    return do_write(descriptor, parts, count, offset);
}
ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t offset) {
    return do_write(descriptor, parts, count, offset);
}
ssize_t pwritev2(int descriptor, const struct iovec *parts, int count, off_t offset, int flags) {
    (void)flags;
    return do_write(descriptor, parts, count, offset);
}
ssize_t pwritev64v2(int descriptor, const struct iovec *parts, int count, off64_t offset, int flags) {
    (void)flags;
    return do_write(descriptor, parts, count, offset);
}

int ftruncate(int descriptor, off_t size) {
    uint64_t inode;
    begin();
    int journaled = ours(descriptor, &inode);
    long result = syscall(SYS_ftruncate, descriptor, size);
    if (result == 0 && journaled) append(TRUNCATE, inode, size, 0, "", 0);
    return end(result);
}
int ftruncate64(int descriptor, off64_t size) { return ftruncate(descriptor, size); }
int truncate(const char *path, off_t size) {
    int descriptor = do_open(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (descriptor < 0) return -1;
    int result = ftruncate(descriptor, size);
    close(descriptor);
    return result;
}
int truncate64(const char *path, off64_t size) { return truncate(path, size); }

int fallocate(int descriptor, int mode, off_t offset, off_t length) {
    uint64_t inode;
    begin();
    int journaled = ours(descriptor, &inode);
    /* Never fails: it is a hint, and who asks does not care. */
    long result = syscall(SYS_fallocate, descriptor, mode, offset, length);
    if (result == 0 && journaled) {
        if (mode & FALLOC_FL_PUNCH_HOLE) {
            /* RocksDB gives back what it allocated beyond the end: nothing that can be read. */
            struct stat found;
            if (status(descriptor, &found) != 0 || offset < found.st_size) violation("a hole punched into a file");
        } else if (mode & ~FALLOC_FL_KEEP_SIZE) violation("fallocate of another mode");
        else if (mode == 0) append(ALLOCATE, inode, offset + length, 0, "", 0);
    }
    return end(result);
}
int fallocate64(int descriptor, int mode, off64_t offset, off64_t length) {
    return fallocate(descriptor, mode, offset, length);
}
int posix_fallocate(int descriptor, off_t offset, off_t length) {
    return fallocate(descriptor, 0, offset, length) == 0 ? 0 : errno;
}
int posix_fallocate64(int descriptor, off64_t offset, off64_t length) {
    return posix_fallocate(descriptor, offset, length);
}

/* ---- durability ------------------------------------------------------------------------------------------------ */

static int do_sync(int descriptor) {
    uint64_t inode;
    begin();
    if (!ours(descriptor, &inode)) {
        pthread_mutex_unlock(&lock);
        return syscall(SYS_fsync, descriptor);
    }
    uint64_t number = ++syncs;
    int failed = fails(1, descriptor, inode);
    append(SYNC_BEGIN, inode, number, 0, "", 0);
    pthread_mutex_unlock(&lock);
    if (sync_micros > 0) {
        /* Others write meanwhile; what they write is not covered. */
        long micros = (number * 2654435761u >> 7) % sync_micros;
        struct timespec pause = {micros / 1000000, micros % 1000000 * 1000};
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, 0);
    }
    begin();
    append(SYNC_END, inode, number, failed ? fault.error : 0, "", 0);
    if (failed) errno = fault.error;
    return end(failed ? -1 : 0);
}
int fsync(int descriptor) { return do_sync(descriptor); }
int fdatasync(int descriptor) { return do_sync(descriptor); }
/* Starts writing back; promises nothing. */
int sync_file_range(int descriptor, off64_t offset, off64_t length, unsigned flags) {
    (void)descriptor, (void)offset, (void)length, (void)flags;
    return 0;
}

/* ---- what is not modelled ------------------------------------------------------------------------------------------ */

static void forbid(int descriptor, const char *what) {
    uint64_t inode;
    begin();
    if (ours(descriptor, &inode)) violation(what);
    pthread_mutex_unlock(&lock);
}

void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset) {
    if (journal >= 0 && descriptor >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE))
        forbid(descriptor, "a writable shared mapping");
    return (void *)syscall(SYS_mmap, address, length, protection, flags, descriptor, offset);
}
void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset) {
    return mmap(address, length, protection, flags, descriptor, offset);
}

ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t length, unsigned flags) {
    forbid(out, "copy_file_range");
    return syscall(SYS_copy_file_range, in, in_offset, out, out_offset, length, flags);
}
ssize_t sendfile(int out, int in, off_t *offset, size_t length) {
    forbid(out, "sendfile");
    return syscall(SYS_sendfile, out, in, offset, length);
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t length) { return sendfile(out, in, offset, length); }
