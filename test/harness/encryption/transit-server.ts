/**
 * A server that answers as the documented endpoints `encrypt` and `decrypt` of the Transit engine do, with real AES-256-GCM, key versions, associated data
 * and derived keys. It is no Vault and no OpenBao: neither is in the registries that this project's tests may use.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

interface TransitRequest {
  readonly plaintext?: string;
  readonly ciphertext?: string;
  readonly associated_data?: string;
  readonly context?: string;
}

class Refused extends Error {}

/** What the server does instead of an answer. */
export type TransitFault = "hang" | "cut" | number;

export interface TransitOptions {
  readonly derived?: boolean;
  /** Like servers before Vault 1.9, which ignore what they do not know. */
  readonly ignoresAssociatedData?: boolean;
}

export class TransitServer {
  readonly #server: Server;
  readonly #options: TransitOptions;
  readonly #versions = [randomBytes(32)];
  token = "token-1";
  namespace: string | undefined;
  oldestVersion = 1;
  /** Each is taken by one request. */
  readonly faults: TransitFault[] = [];
  requests = 0;

  private constructor(server: Server, options: TransitOptions) {
    this.#server = server;
    this.#options = options;
    server.on("request", (request, response) => void this.#answer(request, response));
  }

  static async start(options: TransitOptions = {}): Promise<TransitServer> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new TransitServer(server, options);
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The key as a root key names it. */
  get source(): string {
    return `vault:${this.origin}/v1/transit/keys/fleet`;
  }

  rotate(): void {
    this.#versions.push(randomBytes(32));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests += 1;
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const fault = this.faults.shift();
    if (fault === "hang") return;
    if (fault === "cut") return void request.socket.destroy();
    const [status, answer] = fault === undefined ? this.#judged(request, Buffer.concat(parts)) : [fault, {}];
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
  }

  #judged({ headers, url, method }: IncomingMessage, body: Buffer): [number, object] {
    const operation = /^\/v1\/transit\/(encrypt|decrypt)\/fleet$/.exec(url ?? "")?.[1];
    if (headers["x-vault-token"] !== this.token) return [403, { errors: ["permission denied"] }];
    if (operation === undefined || headers["x-vault-namespace"] !== this.namespace)
      return [404, { errors: ["no handler for route"] }];
    if (method !== "POST" && method !== "PUT") return [405, { errors: ["unsupported operation"] }];
    try {
      const wanted = JSON.parse(body.toString()) as TransitRequest;
      return [200, { data: operation === "encrypt" ? this.#encrypt(wanted) : this.#decrypt(wanted) }];
    } catch (error) {
      return [400, { errors: [(error as Error).message] }];
    }
  }

  #encrypt(wanted: TransitRequest): object {
    const version = this.#versions.length;
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", this.#key(version, wanted), nonce, { authTagLength: 16 });
    cipher.setAAD(this.#associated(wanted));
    const bytes = Buffer.concat([
      nonce,
      cipher.update(wanted.plaintext ?? "", "base64"),
      cipher.final(),
      cipher.getAuthTag(),
    ]);
    return { ciphertext: `vault:v${version}:${bytes.toString("base64")}`, key_version: version };
  }

  #decrypt(wanted: TransitRequest): object {
    const [, version, text] = /^vault:v(\d+):(.+)$/.exec(wanted.ciphertext ?? "") ?? [];
    if (text === undefined) throw new Refused("invalid ciphertext: no prefix");
    if (Number(version) < this.oldestVersion)
      throw new Refused("ciphertext or signature version is disallowed by policy (too old)");
    const bytes = Buffer.from(text, "base64");
    const key = this.#key(Number(version), wanted);
    const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12), { authTagLength: 16 });
    decipher.setAAD(this.#associated(wanted));
    decipher.setAuthTag(bytes.subarray(-16));
    const plain = decipher.update(bytes.subarray(12, -16));
    try {
      decipher.final();
    } catch {
      throw new Refused("cipher: message authentication failed");
    }
    return { plaintext: plain.toString("base64") };
  }

  #key(version: number, { context }: TransitRequest): Buffer {
    const key = this.#versions[version - 1];
    if (key === undefined) throw new Refused("invalid ciphertext: version is too new");
    if (this.#options.derived !== true) return key;
    if (context === undefined) throw new Refused("missing 'context' for key derivation");
    return createHmac("sha256", key).update(Buffer.from(context, "base64")).digest();
  }

  #associated({ associated_data = "" }: TransitRequest): Buffer {
    return this.#options.ignoresAssociatedData === true
      ? Buffer.alloc(0)
      : Buffer.from(associated_data, "base64");
  }
}
