/*
 * The result codes of core/. A function that can fail returns MP_OK or one of these negative
 * codes; it never sets errno on purpose, never prints and never raises.
 */
#ifndef MEMPROFILER_CORE_ERROR_H
#define MEMPROFILER_CORE_ERROR_H

enum {
    MP_OK = 0,
    MP_ENOMEM = -1,  /* malloc(3) returned NULL */
    MP_ERANGE = -2,  /* an argument or an index outside its range */
    MP_EFORMAT = -3, /* input that is not what it should be */
    MP_ELIMIT = -4,  /* a cap was reached: a table's, or the decoder's */
    MP_EZLIB = -5,   /* zlib refused to go on */
};

#endif
