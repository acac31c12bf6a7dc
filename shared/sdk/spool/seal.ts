/**
 * Seals the bodies of spooled commands. Several processes append to one file of a spool, so each process has a data key of its own; every line has it,
 * wrapped by the key of the setting. A line is bound to its head: a body that was moved to another task or agent does not open. The head stays readable, so the
 * commands that wait are counted and ordered without a key.
 */
import { createSecretKey, randomBytes } from "node:crypto";
import {
  DATA_KEY_BYTES,
  DATA_KEY_ID_BYTES,
  type DataKey,
  decryptBytes,
} from "../../integrity/encryption/encrypted-bytes.ts";
import { KeyEncryptionError, type KeyEncryptionKeys } from "../../integrity/encryption/key-encryption-key.ts";
import { localKeyField, openLocalKeys } from "../../integrity/encryption/root-keys.ts";
import type { Environment } from "../../runtime/settings/config.ts";
import { optional } from "../../runtime/settings/config.ts";
import type { LineKey, SealingKey, SpooledCommand } from "./line.ts";

/** The setting of the keys of this machine, also for errors and warnings about them. */
export const SPOOL_KEY = "FLEET_SPOOL_KEY";
const CONTEXT = "fleet/spool/v1";
/** Of processes that wrote to the spools of this agent. */
const OPENED_KEYS_MAX = 256;

export const spoolKeyField = optional(
  localKeyField(SPOOL_KEY, {
    description:
      "Keys of this machine, the newest first: it seals spooled commands, events of hooks that wait, and the files of agents that have ended; the others still open them. A file of mode 0600 (`fleet keys encryption-key` makes one) or a variable of the environment",
    defaultNote: "none: these files are readable by their user",
  }),
);

/** Why a sealed command does not open: this process has no key for it, or its line was changed. */
export type Unopened = "sealed" | "damaged";

export class SpoolSeal {
  readonly #keys: KeyEncryptionKeys | undefined;
  readonly #opened = new Map<string, DataKey>();
  #sealing: Promise<SealingKey> | undefined;

  /** undefined: bodies are not sealed, and sealed ones cannot be opened. */
  constructor(keys: KeyEncryptionKeys | undefined) {
    this.#keys = keys;
  }

  /** Throws StartupError for a key that cannot be read. `sources`: the value of {@link spoolKeyField}. */
  static of(sources: readonly string[] | undefined, env: Environment): SpoolSeal {
    return new SpoolSeal(sources && openLocalKeys(sources, { setting: SPOOL_KEY, env }));
  }

  /** undefined: bodies are not sealed. */
  async sealingKey(): Promise<SealingKey | undefined> {
    if (this.#keys === undefined) return undefined;
    this.#sealing ??= newSealingKey(this.#keys);
    return this.#sealing;
  }

  async open(command: SpooledCommand): Promise<SpooledCommand | Unopened> {
    const { sealed, ...plain } = command;
    if (sealed === undefined) return command;
    const key = await this.#keyOf(sealed.key);
    if (typeof key === "string") return key;
    const bytes = Buffer.from(Buffer.from(command.body).toString("latin1"), "base64");
    const body = decryptBytes(key, bytes, sealed.head);
    return body === null ? "damaged" : { ...plain, body };
  }

  async #keyOf(wrapped: LineKey): Promise<DataKey | Unopened> {
    const known = this.#opened.get(wrapped.wrapped);
    if (known !== undefined) return known;
    const root = this.#keys?.find(({ id }) => id === wrapped.root);
    if (root === undefined) return "sealed";
    const secret = await unwrapped(() => root.unwrap(Buffer.from(wrapped.wrapped, "base64"), CONTEXT));
    if (secret?.length !== DATA_KEY_BYTES) return "damaged";
    const key = { id: Buffer.from(wrapped.id, "hex"), secret: createSecretKey(secret) };
    if (this.#opened.size >= OPENED_KEYS_MAX) this.#opened.clear();
    this.#opened.set(wrapped.wrapped, key);
    return key;
  }
}

async function newSealingKey([root]: KeyEncryptionKeys): Promise<SealingKey> {
  const id = randomBytes(DATA_KEY_ID_BYTES);
  const secret = randomBytes(DATA_KEY_BYTES);
  const wrapped = Buffer.from(await root.wrap(secret, CONTEXT)).toString("base64");
  return {
    key: { id, secret: createSecretKey(secret) },
    wrapped: { root: root.id, id: id.toString("hex"), wrapped },
  };
}

async function unwrapped(unwrap: () => Promise<Uint8Array>): Promise<Uint8Array | null> {
  try {
    return await unwrap();
  } catch (error) {
    if (error instanceof KeyEncryptionError && error.kind === "invalid") return null;
    throw error;
  }
}
