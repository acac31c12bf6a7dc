/**
 * The key at the root of encryption at rest. It never encrypts content: it wraps the keys that do, each with a context
 * that names its place, so that a wrapped key which was moved to another place does not unwrap.
 */
export interface KeyEncryptionKey {
  /** Names the key among all keys of all sources, and stands beside what it wrapped. Not secret. */
  readonly id: string;
  /** @throws KeyEncryptionError `unavailable` or `refused`. */
  wrap(key: Uint8Array, context: string): Promise<Uint8Array>;
  /** @throws KeyEncryptionError `unavailable`, `refused`, or `invalid`: it was changed, or wrapped elsewhere. */
  unwrap(wrapped: Uint8Array, context: string): Promise<Uint8Array>;
}

/** The root keys of a service: the first wraps new keys, the others still unwrap what they wrapped. */
export type KeyEncryptionKeys = readonly [KeyEncryptionKey, ...KeyEncryptionKey[]];

export type KeyEncryptionFailure = "unavailable" | "refused" | "invalid";

/** `message` is static text; the facts are in `details`, and are never secret. */
export class KeyEncryptionError extends Error {
  readonly kind: KeyEncryptionFailure;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    kind: KeyEncryptionFailure,
    message: string,
    options: { details?: Record<string, unknown>; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "KeyEncryptionError";
    this.kind = kind;
    this.details = options.details ?? {};
  }
}
