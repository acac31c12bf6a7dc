/** Keys that the embedded engines keep for themselves, outside the space of callers' keys. */

/** The commit counter: 8 bytes, big-endian. */
export const SEQUENCE_KEY = Buffer.from([0xfe, 0x73]); // "s"

/** Written by health checks. */
export const PROBE_KEY = Buffer.from([0xfe, 0x70]); // "p"
