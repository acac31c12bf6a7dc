/** A time-stamp authority: `openssl ts -reply` behind HTTP, with certificates of its own. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer, type ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { timestampRequest } from "../../../shared/integrity/timestamp/timestamp-request.ts";

const settings = (digest: string): string => `
[tsa]
default_tsa = one
[one]
serial = serial
crypto_device = builtin
signer_cert = tsa.pem
certs = chain.pem
signer_key = tsa.key
signer_digest = ${digest}
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:1
ess_cert_id_chain = no
ess_cert_id_alg = sha256
`;
const CA_SETTINGS = `
[ca]
default_ca = own
[own]
database = index
serial = ca.serial
new_certs_dir = .
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
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

export interface AuthorityKind {
  /** As `openssl req -newkey` takes it. */
  readonly key: readonly string[];
  readonly digest: "sha256" | "sha384" | "sha512";
  /** Whether another authority is between the root and the certificate that signs. */
  readonly hasMiddle: boolean;
  /** The extensions of that one, and of the root. */
  readonly middle: string;
  readonly root: string;
}

const CA_USAGE = "basicConstraints = critical,CA:TRUE\nkeyUsage = critical,keyCertSign,cRLSign\n";
const USUAL: AuthorityKind = {
  key: ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
  digest: "sha256",
  hasMiddle: false,
  middle: CA_USAGE,
  root: CA_USAGE,
};

export class TimestampAuthority {
  readonly folder = mkdtempSync(join(tmpdir(), "fleet-tsa-"));
  readonly requests: Buffer[] = [];
  /** Changes an answer. */
  onReply: ((reply: Buffer) => Buffer) | null = null;
  /** The status of the answer, instead of a time-stamp. */
  status: number | null = null;
  readonly #server: Server;

  readonly #kind: AuthorityKind;
  readonly #isSecure: boolean;

  private constructor(kind: AuthorityKind, tls: ServerOptions | null) {
    this.#kind = kind;
    const answer = (request: IncomingMessage, response: ServerResponse) =>
      void this.#answer(request, response);
    this.#isSecure = tls !== null;
    this.#server = tls === null ? createServer(answer) : createSecureServer(tls, answer);
  }

  /** `tls`: the key and the certificate of its server. null: it has none. */
  static async start(
    kind: Partial<AuthorityKind> = {},
    tls: ServerOptions | null = null,
  ): Promise<TimestampAuthority> {
    const authority = new TimestampAuthority({ ...USUAL, ...kind }, tls);
    authority.#makeCertificates();
    await new Promise<void>((resolve) => authority.#server.listen(0, "127.0.0.1", resolve));
    return authority;
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return this.#isSecure ? `https://localhost:${port}/tsa` : `http://127.0.0.1:${port}/tsa`;
  }

  get caFile(): string {
    return join(this.folder, "ca.pem");
  }

  get ca(): string {
    return this.certificate("ca");
  }

  /** One of its certificates, PEM. */
  certificate(name: "ca" | "middle" | "tsa"): string {
    return readFileSync(join(this.folder, `${name}.pem`), "utf8");
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

  stamp(content: Uint8Array): Buffer {
    return this.reply(timestampRequest(content).bytes);
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
   * root. `naming`: with the signed name of the certificate, which RFC 3161 demands. `change`: of what is stamped.
   */
  resigned(
    response: Uint8Array,
    signer: "tsa" | "web",
    naming: boolean,
    change: (info: Buffer) => Buffer = (info) => info,
  ): Buffer {
    writeFileSync(join(this.folder, "whole.tsr"), response);
    this.#openssl("ts", "-reply", "-in", "whole.tsr", "-token_out", "-out", "token.der");
    this.#openssl("cms", "-verify", "-noverify", "-inform", "DER", "-in", "token.der", "-out", "info.der");
    const info = join(this.folder, "info.der");
    writeFileSync(info, change(readFileSync(info)));
    const kind = ["-econtent_type", "1.2.840.113549.1.9.16.1.4", "-nodetach", "-binary", "-outform", "DER"];
    const of = ["-signer", `${signer}.pem`, "-inkey", `${signer}.key`, "-certfile", "chain.pem"];
    const keys = [...of, "-md", "sha256"];
    const named = naming ? ["-cades"] : [];
    this.#openssl("cms", "-sign", ...kind, ...keys, ...named, "-in", "info.der", "-out", "forged.der");
    const granted = Buffer.from("3003020100", "hex");
    return sequence(Buffer.concat([granted, readFileSync(join(this.folder, "forged.der"))]));
  }

  /** The same time-stamp by the same authority, with another time. */
  retimed(response: Uint8Array, time: Date): Buffer {
    const digits = `${time.toISOString().replaceAll(/[-:T]|\..*/g, "")}Z`;
    return this.resigned(response, "tsa", true, (info) => {
      const text = info.toString("latin1").replace(/\d{14}Z/, digits);
      return Buffer.from(text, "latin1");
    });
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
    const { digest, hasMiddle, middle, root } = this.#kind;
    const files = {
      "tsa.cnf": settings(digest),
      serial: "01\n",
      "ca.cnf": CA_SETTINGS,
      "ca.serial": "01\n",
      index: "",
    };
    for (const [name, text] of Object.entries(files)) writeFileSync(join(this.folder, name), text);
    this.#makeCertificate("ca", { usage: root, issuer: null });
    if (hasMiddle) this.#makeCertificate("middle", { usage: middle, issuer: "ca" });
    const issuer = hasMiddle ? "middle" : "ca";
    this.#makeCertificate("tsa", { usage: USAGE, issuer });
    this.#makeCertificate("web", { usage: OTHER_USAGE, issuer });
    const chain = hasMiddle ? ["middle", "ca"] : ["ca"];
    const pems = chain.map((name) => readFileSync(join(this.folder, `${name}.pem`), "utf8"));
    writeFileSync(join(this.folder, "chain.pem"), pems.join(""));
  }

  /** Valid since long before now, so that a time-stamp of an earlier time can be forged. `issuer` null: it signs itself. */
  #makeCertificate(
    name: string,
    { usage, issuer }: { readonly usage: string; readonly issuer: string | null },
  ): void {
    writeFileSync(join(this.folder, "usage.cnf"), usage);
    const subject = ["-subj", `/CN=test ${name === "ca" ? "root" : name}`];
    const key = ["-newkey", ...this.#kind.key, "-nodes", "-keyout", `${name}.key`];
    this.#openssl("req", ...key, "-out", `${name}.csr`, ...subject);
    const signer =
      issuer === null
        ? ["-selfsign", "-keyfile", `${name}.key`]
        : ["-cert", `${issuer}.pem`, "-keyfile", `${issuer}.key`];
    const times = ["-startdate", "20200101000000Z", "-days", "2"];
    const request = ["-in", `${name}.csr`, "-out", `${name}.pem`, "-extfile", "usage.cnf", "-notext"];
    const digest = ["-md", this.#kind.digest];
    this.#openssl("ca", "-batch", "-config", "ca.cnf", ...digest, ...signer, ...times, ...request);
  }

  #openssl(...args: string[]): Buffer {
    return execFileSync("openssl", args, { cwd: this.folder, stdio: ["ignore", "pipe", "pipe"] });
  }
}
