/** The limits of answers about anchors: a part of `LIMITS`. */
export const ANCHOR_LIMITS = {
  /** A time-stamp with its certificates takes some kilobytes. */
  anchors_limit_max: 20,
  anchors_limit_default: 10,
  /** The lock of an object. */
  anchor_retain_days_max: 36_500,
  anchor_retain_days_default: 2_192,
} as const;
