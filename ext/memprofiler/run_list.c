#include "run_list.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hold_back.h"
#include "vm/compat.h"

#define SPARE_DESCRIPTORS 8

static struct {
    char *path;    /* NULL: there's no list */
    char *program; /* its name: plain ASCII */
    pid_t pid;     /* the one that it began in, even if it goes on in another as a daemon */
    bool hears_of_forks;
} list;

/* (Whoever else may write to the folder could have put a link there, or a pipe that nobody reads.) */
static int open_once(void)
{
    int file;
    do {
        file = open(list.path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    } while (file < 0 && errno == EINTR);
    return file;
}

/* A program may have used up all of its descriptors: above the hard limit root may go. */
static int open_list(void)
{
    int file = open_once();
    struct rlimit before, more;
    if (file >= 0 || errno != EMFILE || getrlimit(RLIMIT_NOFILE, &before) != 0) return file;
    more = before;
    more.rlim_cur += SPARE_DESCRIPTORS;
    if (more.rlim_max < more.rlim_cur) more.rlim_max = more.rlim_cur;
    if (setrlimit(RLIMIT_NOFILE, &more) != 0) return -1;
    file = open_once();
    setrlimit(RLIMIT_NOFILE, &before);
    return file;
}

/* One write: other processes write there too. */
static bool append(const struct iovec *parts, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    int file = open_list();
    if (file < 0) return false;
    ssize_t written;
    do {
        written = writev(file, parts, count);
    } while (written < 0 && errno == EINTR);
    close(file);
    return written == (ssize_t)size;
}

/* `text` has no tabs and no ends of lines. */
static bool write_line(const char *what, const char *text, size_t size)
{
    if (!list.path) return false;
    char number[32], tab[] = "\t", end[] = "\n";
    int digits = snprintf(number, sizeof number, "\t%ld\t", (long)list.pid);
    struct iovec parts[] = {{(char *)what, strlen(what)},
                            {number, (size_t)digits},
                            {list.program, strlen(list.program)},
                            {tab, 1},
                            {(char *)text, size},
                            {end, 1}};
    /* It would end a program that may write no more. */
    bool held = mp_hold_signal(SIGXFSZ);
    bool done = append(parts, sizeof parts / sizeof *parts);
    if (held) mp_release_signal(SIGXFSZ);
    return done;
}

void mp_run_list_fork(const char *what, const char *text)
{
    if (list.hears_of_forks) write_line(what, text ? text : "", text ? strlen(text) : 0);
}

/* ---- the methods ----------------------------------------------------------------------------- */

static void keep(char **place, const char *text)
{
    free(*place);
    *place = strdup(text);
}

/*
 * This process has a list from now on, in which its program begins.
 * @param path [String]
 * @param program [String] its name
 * @return [Boolean] whether it could be written
 * @api private
 */
static VALUE list_begins(VALUE self, VALUE path, VALUE program)
{
    (void)self;
    char parent[24] = "";
    if (list.path) snprintf(parent, sizeof parent, "%ld", (long)list.pid);
    keep(&list.program, StringValueCStr(program));
    keep(&list.path, StringValueCStr(path));
    if (!list.program || !list.path) rb_memerror();
    list.pid = getpid();
    return RBOOL(write_line("started", parent, strlen(parent)));
}

/*
 * @return [Boolean] whether it could be written
 * @api private
 */
static VALUE list_line(VALUE self, VALUE what, VALUE text)
{
    (void)self;
    StringValueCStr(what);
    StringValue(text);
    size_t size = (size_t)RSTRING_LEN(text);
    char *line = malloc(size + 1);
    if (!line) return Qfalse;
    for (size_t i = 0; i < size; i++) {
        char byte = RSTRING_PTR(text)[i];
        line[i] = byte == '\t' || byte == '\r' || byte == '\n' ? ' ' : byte;
    }
    bool done = write_line(RSTRING_PTR(what), line, size);
    free(line);
    return RBOOL(done);
}

/*
 * Whether the list hears of this process' forks: of one that isn't profiled it doesn't.
 * @api private
 */
static VALUE list_hears_of_forks(VALUE self, VALUE hears)
{
    (void)self;
    list.hears_of_forks = RTEST(hears);
    return hears;
}

void mp_init_run_list(VALUE memprofiler)
{
    rb_define_singleton_method(memprofiler, "list_begins", list_begins, 2);
    rb_define_singleton_method(memprofiler, "list_line", list_line, 2);
    rb_define_singleton_method(memprofiler, "list_hears_of_forks=", list_hears_of_forks, 1);
}
