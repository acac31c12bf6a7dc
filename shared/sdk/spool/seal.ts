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
import { FleetError } from "../../protocol/errors.ts";
import type { Environment } from "../../runtime/settings/config.ts";
import { optional } from "../../runtime/settings/config.ts";
import type { LineKey, SealingKey, SpooledCommand } from "./line.ts";

const SETTING = "FLEET_SPOOL_KEY";
const CONTEXT = "fleet/spool/v1";
/** Of processes that wrote to the spools of this agent. */
const OPENED_KEYS_MAX = 256;

export const spoolKeyField = optional(
  localKeyField(SETTING, {
    description:
      "Keys of the spools, the newest first: it seals what waits there, the others still open it. A file of mode 0600 (`fleet keys encryption-key` makes one) or a variable of the environment",
    defaultNote: "none: spooled commands are readable by their user",
  }),
);

/** This process has no key for a sealed command, which therefore stays. */
export class SealedCommand extends FleetError {
  constructor(key: LineKey, { taskId, commandId }: SpooledCommand) {
    super("UNAVAILABLE", "a spooled command is sealed, and its key is not named", {
      details: { setting: SETTING, key_id: key.root, task_id: taskId, command_id: commandId },
    });
  }
}

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
    return new SpoolSeal(sources && openLocalKeys(sources, { setting: SETTING, env }));
  }

  /** undefined: bodies are not sealed. */
  async sealingKey(): Promise<SealingKey | undefined> {
    if (this.#keys === undefined) return undefined;
    this.#sealing ??= newSealingKey(this.#keys);
    return this.#sealing;
  }

  /** null: the line was changed. Throws {@link SealedCommand}. */
  async open(command: SpooledCommand): Promise<SpooledCommand | null> {
    const { sealed, ...plain } = command;
    if (sealed === undefined) return command;
    const key = await this.#keyOf(sealed.key, command);
    const body =
      key &&
      decryptBytes(key, Buffer.from(Buffer.from(command.body).toString("latin1"), "base64"), sealed.head);
    return body === null ? null : { ...plain, body };
  }

  async #keyOf(wrapped: LineKey, command: SpooledCommand): Promise<DataKey | null> {
    const known = this.#opened.get(wrapped.wrapped);
    if (known !== undefined) return known;
    const root = this.#keys?.find(({ id }) => id === wrapped.root);
    if (root === undefined) throw new SealedCommand(wrapped, command);
    const secret = await unwrapped(() => root.unwrap(Buffer.from(wrapped.wrapped, "base64"), CONTEXT));
    if (secret?.length !== DATA_KEY_BYTES) return null;
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
