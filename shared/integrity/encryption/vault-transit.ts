/**
 * A root key in the Transit engine of Vault or OpenBao. The key never leaves the server. What it wraps is bound to its place as associated data
 * of the server's AEAD, and as derivation context, which only a derived key uses.
 */
import { systemClock } from "../../runtime/clock.ts";
import { isLoopback } from "../../runtime/loopback.ts";
import { withRetries } from "../../runtime/retry.ts";
import type { Environment } from "../../runtime/settings/config.ts";
import {
  KeyEncryptionError,
  type KeyEncryptionFailure,
  type KeyEncryptionKey,
} from "./key-encryption-key.ts";
import { readSecretFile, readSecretVariable, type SecretPlace } from "./secret-source.ts";

/** For one attempt. */
const ANSWER_MS = 5_000;
const ATTEMPTS = 3;
const ANSWER_CHARS_MAX = 65_536;
const REFUSAL_CHARS = 200;
const TOKEN = "VAULT_TOKEN";
const PATH = /^\/v1\/([A-Za-z0-9_./-]+)\/keys\/([A-Za-z0-9_.-]+)$/;
const PARAMETERS = new Set(["namespace", "token_file"]);
/** In the texts of the server for a ciphertext that it cannot have made with this key and this context. */
const INVALID = /authentication failed|invalid ciphertext|no prefix|could not be decoded|cannot decrypt/i;
const REFUSED = new Set([400, 401, 403, 404, 405]);
const FORBIDDEN = 403;

export interface TransitAddress {
  readonly origin: string;
  readonly mount: string;
  readonly name: string;
  readonly namespace: string | null;
  /** The file of a token that an agent of Vault renews; null: the token is in the environment. */
  readonly tokenFile: string | null;
}

/** null: it is no address of a key. Without TLS only servers of this machine are accepted, because keys are sent. */
export function transitAddress(text: string): TransitAddress | null {
  if (!URL.canParse(text)) return null;
  const { protocol, hostname, origin, pathname, searchParams, username, password, hash } = new URL(text);
  const isProtected =
    protocol === "https:" || (protocol === "http:" && isLoopback(hostname.replace(/^\[|\]$/g, "")));
  const [, mount, name] = PATH.exec(pathname) ?? [];
  if (!isProtected || mount === undefined || name === undefined) return null;
  if (username !== "" || password !== "" || hash !== "") return null;
  if ([...searchParams.keys()].some((parameter) => !PARAMETERS.has(parameter))) return null;
  const given = (parameter: string) => searchParams.get(parameter) || null;
  return { origin, mount, name, namespace: given("namespace"), tokenFile: given("token_file") };
}

/** Asks the server for nothing yet. Throws StartupError without a token. */
export function openTransitKey(
  address: TransitAddress,
  env: Environment,
  place: SecretPlace,
): KeyEncryptionKey {
  // Read for each request: an agent of Vault renews it.
  const token = () =>
    address.tokenFile === null
      ? readSecretVariable(TOKEN, env, place)
      : readSecretFile(address.tokenFile, { ...place, source: address.tokenFile });
  token();
  return new TransitKey(address, token);
}

class TransitKey implements KeyEncryptionKey {
  readonly id: string;
  readonly #address: TransitAddress;
  readonly #token: () => string;
  #binds: Promise<void> | null = null;

  constructor(address: TransitAddress, token: () => string) {
    const { origin, mount, name, namespace } = address;
    const within = namespace === null ? "" : `?namespace=${encodeURIComponent(namespace)}`;
    this.id = `vault:${origin}/v1/${mount}/keys/${name}${within}`;
    this.#address = address;
    this.#token = token;
  }

  async wrap(key: Uint8Array, context: string): Promise<Uint8Array> {
    const wrapped = await this.#encrypt(key, context);
    this.#binds ??= this.#requireBinding(wrapped, context);
    try {
      await this.#binds;
    } catch (error) {
      this.#binds = null;
      throw error;
    }
    return wrapped;
  }

  async unwrap(wrapped: Uint8Array, context: string): Promise<Uint8Array> {
    const body = { ciphertext: Buffer.from(wrapped).toString("latin1"), ...bound(context) };
    const { plaintext } = await this.#ask("decrypt", body);
    if (typeof plaintext !== "string") throw unexpected();
    return Buffer.from(plaintext, "base64");
  }

  async #encrypt(key: Uint8Array, context: string): Promise<Uint8Array> {
    const body = { plaintext: Buffer.from(key).toString("base64"), ...bound(context) };
    const { ciphertext } = await this.#ask("encrypt", body);
    if (typeof ciphertext !== "string") throw unexpected();
    return Buffer.from(ciphertext, "latin1");
  }

  /** An old server ignores associated data, and would unwrap a key at any place. */
  async #requireBinding(wrapped: Uint8Array, context: string): Promise<void> {
    try {
      await this.unwrap(wrapped, `${context}\0`);
    } catch (error) {
      if (error instanceof KeyEncryptionError && error.kind === "invalid") return;
      throw error;
    }
    throw new KeyEncryptionError("refused", "the Transit key does not bind what it wraps to its place", {
      details: {
        key: this.id,
        next: "use a key of the type aes256-gcm96, and Vault 1.9 or newer or OpenBao",
      },
    });
  }

  #ask(operation: "encrypt" | "decrypt", body: object): Promise<Readonly<Record<string, unknown>>> {
    return withRetries(
      {
        clock: systemClock,
        attempts: ATTEMPTS,
        baseMs: 200,
        maxMs: 1_000,
        // A token that was renewed in the meantime is read for the next attempt.
        retryable: (error) =>
          error instanceof KeyEncryptionError &&
          (error.kind === "unavailable" || error.details.status === FORBIDDEN),
      },
      () => this.#attempt(operation, body),
    );
  }

  async #attempt(operation: string, body: object): Promise<Readonly<Record<string, unknown>>> {
    const { origin, mount, name, namespace } = this.#address;
    const token = this.#readToken();
    const [status, answer] = await answerOf(`${origin}/v1/${mount}/${operation}/${name}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-vault-request": "true",
        "x-vault-token": token,
        ...(namespace !== null && { "x-vault-namespace": namespace }),
      },
      body: JSON.stringify(body),
      // Another server must not get the token.
      redirect: "error",
      signal: AbortSignal.timeout(ANSWER_MS),
    }).catch((cause: unknown) => {
      const details = { key: this.id, problem: problemOf(cause) };
      throw new KeyEncryptionError("unavailable", "the server of the root key does not answer", {
        details,
        cause,
      });
    });
    const { data, errors } = answer;
    if (status === 200 && typeof data === "object" && data !== null) return data as Record<string, unknown>;
    const texts = Array.isArray(errors) ? errors.join("; ").slice(0, REFUSAL_CHARS) : "";
    const [kind, message] = failureOf(status, operation === "decrypt" && INVALID.test(texts));
    throw new KeyEncryptionError(kind, message, { details: { key: this.id, status, answer: texts } });
  }

  #readToken(): string {
    try {
      return this.#token();
    } catch (cause) {
      const details = { key: this.id, problem: problemOf(cause) };
      throw new KeyEncryptionError("refused", "the token for the root key cannot be read", {
        details,
        cause,
      });
    }
  }
}

function bound(context: string) {
  const text = Buffer.from(context).toString("base64");
  return { associated_data: text, context: text };
}

function failureOf(status: number, isInvalid: boolean): readonly [KeyEncryptionFailure, string] {
  if (isInvalid) return ["invalid", "the wrapped key does not unwrap"];
  if (REFUSED.has(status)) return ["refused", "the server of the root key has refused its use"];
  return ["unavailable", "the server of the root key cannot use it now"];
}

async function answerOf(
  url: string,
  request: RequestInit,
): Promise<[number, Readonly<Record<string, unknown>>]> {
  const response = await fetch(url, request);
  let text = "";
  const decoder = new TextDecoder();
  for await (const part of response.body ?? []) {
    text += decoder.decode(part, { stream: true });
    if (text.length > ANSWER_CHARS_MAX) throw new Error("its answer is too long");
  }
  const answer: unknown = text === "" ? {} : jsonOf(text);
  return [
    response.status,
    typeof answer === "object" && answer !== null ? (answer as Record<string, unknown>) : {},
  ];
}

/** A proxy before the server answers in other formats. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

function unexpected(): KeyEncryptionError {
  return new KeyEncryptionError("unavailable", "the server of the root key has given an unexpected answer");
}

/** The reason of `fetch` is in the cause of its error. */
function problemOf(error: unknown): string {
  const { cause, message } = error as { cause?: { code?: string; message?: string }; message?: string };
  return cause?.code ?? cause?.message ?? message ?? String(error);
}
