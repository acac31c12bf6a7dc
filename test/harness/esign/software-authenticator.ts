// An authenticator in software, with real keys: what a browser answers for it. The tests with a browser have a virtual authenticator.

import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

export type PasskeyKind = "EC" | "OKP" | "RSA";

/** What a test changes of an answer. */
export interface Asked {
  readonly challenge: string;
  readonly origin?: string;
  readonly rpId?: string;
  readonly type?: string;
  readonly crossOrigin?: boolean;
  readonly isVerified?: boolean;
  readonly isPresent?: boolean;
  /** Absent: one more than before. */
  readonly count?: number;
}

const RSA_BITS = 2_048;

function keysOf(kind: PasskeyKind): { readonly publicKey: KeyObject; readonly privateKey: KeyObject } {
  if (kind === "EC") return generateKeyPairSync("ec", { namedCurve: "P-256" });
  return kind === "OKP"
    ? generateKeyPairSync("ed25519")
    : generateKeyPairSync("rsa", { modulusLength: RSA_BITS });
}

export class SoftwareAuthenticator {
  readonly credentialId = randomBytes(32).toString("base64url");
  readonly jwk: Record<string, string>;
  readonly #kind: PasskeyKind;
  readonly #privateKey: KeyObject;
  #count = 0;

  constructor(kind: PasskeyKind = "EC") {
    const { publicKey, privateKey } = keysOf(kind);
    this.#kind = kind;
    this.#privateKey = privateKey;
    this.jwk = publicKey.export({ format: "jwk" }) as Record<string, string>;
  }

  answer({ challenge, origin = "http://localhost:4000", rpId = "localhost", ...asked }: Asked) {
    const { type = "webauthn.get", isVerified = true, isPresent = true, crossOrigin = false } = asked;
    this.#count = asked.count ?? this.#count + 1;
    const head = Buffer.alloc(5);
    head[0] = (isPresent ? 1 : 0) | (isVerified ? 4 : 0);
    head.writeUInt32BE(this.#count, 1);
    const data = Buffer.concat([createHash("sha256").update(rpId).digest(), head]);
    const client = Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin }));
    const signed = Buffer.concat([data, createHash("sha256").update(client).digest()]);
    const signature = sign(this.#kind === "OKP" ? null : "sha256", signed, this.#privateKey);
    return {
      credentialId: this.credentialId,
      authenticatorData: data.toString("base64url"),
      clientData: client.toString("base64url"),
      signature: signature.toString("base64url"),
    };
  }
}
