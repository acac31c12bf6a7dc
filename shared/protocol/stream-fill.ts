/** How full a stream is that drops no messages. Operators are alerted before it refuses new ones. */

interface Fill {
  readonly bytes: number;
  /** 0 or less: no limit. */
  readonly bytesMax: number;
}

/** 0 for an empty stream, 1 for a full one. */
export function fillRatio({ bytes, bytesMax }: Fill): number {
  return bytesMax > 0 ? bytes / bytesMax : 0;
}

export function isNearlyFull(fill: Fill): boolean {
  return fillRatio(fill) >= 0.8;
}

/** Apart from `isNearlyFull`, so that a stream whose size varies around 80 % causes one alert. */
export function isRelieved(fill: Fill): boolean {
  return fillRatio(fill) < 0.7;
}
