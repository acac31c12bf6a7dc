/** A time-stamp authority: `openssl ts -reply` behind HTTP, with certificates of its own. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";

const SETTINGS = `
[tsa]
default_tsa = one
[one]
serial = serial
crypto_device = builtin
signer_cert = tsa.pem
certs = ca.pem
signer_key = tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:1
ess_cert_id_chain = no
ess_cert_id_alg = sha256
`;
/** Of the certificate: only for time-stamps, as RFC 3161 demands. */
const USAGE = "extendedKeyUsage = critical,timeStamping\nkeyUsage = critical,digitalSignature\n";
const OTHER_USAGE = "extendedKeyUsage = clientAuth\nkeyUsage = critical,digitalSignature\n";

/** In DER, of 256 to 65,535 bytes. */
function sequence(content: Buffer): Buffer {
  const head = Buffer.from([0x30, 0x82, 0, 0]);
  head.writeUInt16BE(content.length, 2);
  return Buffer.concat([head, content]);
}

export class TimestampAuthority {
  readonly folder = mkdtempSync(join(tmpdir(), "fleet-tsa-"));
  readonly requests: Buffer[] = [];
  /** Changes an answer. */
  onReply: ((reply: Buffer) => Buffer) | null = null;
  /** The status of the answer, instead of a time-stamp. */
  status: number | null = null;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(): Promise<TimestampAuthority> {
    const authority = new TimestampAuthority();
    authority.#makeCertificates();
    await new Promise<void>((resolve) => authority.#server.listen(0, "127.0.0.1", resolve));
    return authority;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/tsa`;
  }

  get caFile(): string {
    return join(this.folder, "ca.pem");
  }

  get ca(): string {
    return readFileSync(this.caFile, "utf8");
  }

  reply(request: Uint8Array): Buffer {
    const [query, reply] = [join(this.folder, "query.tsq"), join(this.folder, "reply.tsr")];
    writeFileSync(query, request);
    this.#openssl(
      "ts",
      "-reply",
      "-config",
      "tsa.cnf",
      "-section",
      "one",
      "-queryfile",
      query,
      "-out",
      reply,
    );
    return readFileSync(reply);
  }

  /** Whether `openssl ts -verify` accepts the response for this content. */
  verifies(response: Uint8Array, content: string): boolean {
    const [kept, data] = [join(this.folder, "kept.tsr"), join(this.folder, "content.txt")];
    writeFileSync(kept, response);
    writeFileSync(data, content);
    const args = ["ts", "-verify", "-data", data, "-in", kept, "-CAfile", this.caFile];
    return spawnSync("openssl", args, { cwd: this.folder }).status === 0;
  }

  /**
   * The time-stamp of a response, signed again as CMS alone: by the authority or the holder of another certificate of the same
   * root. `naming`: with the signed name of the certificate, which RFC 3161 demands.
   */
  resigned(response: Uint8Array, signer: "tsa" | "web", naming: boolean): Buffer {
    writeFileSync(join(this.folder, "whole.tsr"), response);
    this.#openssl("ts", "-reply", "-in", "whole.tsr", "-token_out", "-out", "token.der");
    this.#openssl("cms", "-verify", "-noverify", "-inform", "DER", "-in", "token.der", "-out", "info.der");
    const kind = ["-econtent_type", "1.2.840.113549.1.9.16.1.4", "-nodetach", "-binary", "-outform", "DER"];
    const keys = ["-signer", `${signer}.pem`, "-inkey", `${signer}.key`, "-md", "sha256"];
    const named = naming ? ["-cades"] : [];
    this.#openssl("cms", "-sign", ...kind, ...keys, ...named, "-in", "info.der", "-out", "forged.der");
    const granted = Buffer.from("3003020100", "hex");
    return sequence(Buffer.concat([granted, readFileSync(join(this.folder, "forged.der"))]));
  }

  /** The time in a response, as `openssl` prints it. */
  timeIn(response: Uint8Array): Date {
    const kept = join(this.folder, "printed.tsr");
    writeFileSync(kept, response);
    const printed = this.#openssl("ts", "-reply", "-in", kept, "-text").toString();
    return new Date(/Time stamp: (.*)/.exec(printed)?.[1] ?? "");
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const sent = await buffer(request);
    this.requests.push(sent);
    const { status, onReply } = this;
    if (status !== null) return void response.writeHead(status).end();
    const reply = this.reply(sent);
    const headers = { "content-type": "application/timestamp-reply" };
    response.writeHead(200, headers).end(onReply?.(reply) ?? reply);
  }

  #makeCertificates(): void {
    writeFileSync(join(this.folder, "tsa.cnf"), SETTINGS);
    writeFileSync(join(this.folder, "serial"), "01\n");
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    const ca = ["-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test root"];
    this.#openssl("req", "-x509", ...key, ...ca);
    for (const [name, usage] of [
      ["tsa", USAGE],
      ["web", OTHER_USAGE],
    ] as const) {
      writeFileSync(join(this.folder, "usage.cnf"), usage);
      this.#openssl(
        "req",
        ...key,
        "-keyout",
        `${name}.key`,
        "-out",
        `${name}.csr`,
        "-subj",
        `/CN=test ${name}`,
      );
      const signer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2", "-extfile", "usage.cnf"];
      this.#openssl("x509", "-req", "-in", `${name}.csr`, ...signer, "-out", `${name}.pem`);
    }
  }

  #openssl(...args: string[]): Buffer {
    return execFileSync("openssl", args, { cwd: this.folder, stdio: ["ignore", "pipe", "pipe"] });
  }
}
