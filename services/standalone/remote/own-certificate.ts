/**
 * The certificate that the standalone fleet makes for its bus, signed by an authority of its own. Both are in the home, so clients trust
 * them across restarts. The authority keeps its key for ever: clients with an older certificate of it accept every later one.
 */
import { createPrivateKey, generateKeyPairSync, type KeyObject, X509Certificate } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";
import { writeOnce, writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import { authorityCertificate, serverCertificate } from "./certificate.ts";

export interface OwnCertificate {
  /** Absolute paths. */
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

export interface CertificateUse {
  /** True: for the servers of a cluster, which show it to each other. */
  readonly forRoutes?: boolean;
  /** The name of its files. Default: `server`. */
  readonly file?: string;
}

const DAY_MS = 86_400_000;
/** Some clients refuse certificates of servers that are valid for more than 398 days. */
const DAYS = { server: 398, serverLeft: 60, authority: 3_650, authorityLeft: 600 };
const CLIENT_AUTHENTICATION = "1.3.6.1.5.5.7.3.2";
const FOLDER_MODE = 0o755;
const PUBLIC = 0o644;

/**
 * Makes what is missing, ends soon or does not cover the hosts. `isNew`: the server must load its certificate again.
 * Throws StartupError if the authority is damaged.
 */
export function openOwnCertificate(
  folder: string,
  hosts: readonly string[],
  now = Date.now(),
  { forRoutes = false, file = "server" }: CertificateUse = {},
): OwnCertificate & { readonly isNew: boolean } {
  mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
  const paths = {
    caFile: join(folder, "ca.pem"),
    certFile: join(folder, `${file}.pem`),
    keyFile: join(folder, `${file}.key`),
  };
  const authority = openAuthority(paths.caFile, join(folder, "ca.key"), now);
  const isNew = !isUsable(paths, { hosts, forRoutes }, authority.certificate, now);
  if (isNew) {
    const key = newKey();
    const name = `${authority.name} server`;
    writeWhole(paths.keyFile, pemOf(key));
    const pem = serverCertificate({ name, key, hosts, authority, forRoutes, ...validity(now, DAYS.server) });
    writeWhole(paths.certFile, pem, PUBLIC);
  }
  return { ...paths, isNew };
}

/** Renews the certificate of a fleet that runs for months. `reload` makes the server load it. */
export function keepRenewed(
  folder: string,
  hosts: readonly string[],
  { clock, log, reload }: { readonly clock: Clock; readonly log: Logger; reload(): void },
): Stop {
  return startTicker({
    name: "certificate of the bus",
    everyMs: DAY_MS,
    clock,
    log,
    run: async () => {
      if (!openOwnCertificate(folder, hosts, clock.now()).isNew) return;
      reload();
      log.info({ folder }, "the certificate of the bus is renewed");
    },
  });
}

function openAuthority(caFile: string, keyFile: string, now: number) {
  const name = "Fleet";
  try {
    if (read(keyFile) === undefined) writeOnce(keyFile, pemOf(newKey()));
    const key = createPrivateKey(readFileSync(keyFile));
    const known = certificateIn(caFile);
    if (known?.checkPrivateKey(key) === false) throw new Error("the certificate has another key");
    if (known === undefined || daysLeft(known, now) < DAYS.authorityLeft)
      writeWhole(caFile, authorityCertificate({ name, key, ...validity(now, DAYS.authority) }), PUBLIC);
    return { name, key, certificate: new X509Certificate(readFileSync(caFile)) };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new StartupError("the authority of the fleet's certificate cannot be used", {
      exitCode: exitCodes.config,
      details: { certificate: caFile, key: keyFile, problem: code ?? message },
      hint: "restore both files; without them, remove both, and give every client the new authority",
      cause: error,
    });
  }
}

/** A certificate and a key that do not fit are what a kill between the two writes leaves. */
function isUsable(
  { certFile, keyFile }: OwnCertificate,
  { hosts, forRoutes }: CertificateUse & { readonly hosts: readonly string[] },
  authority: X509Certificate,
  now: number,
): boolean {
  try {
    const certificate = certificateIn(certFile);
    const key = read(keyFile);
    if (certificate === undefined || key === undefined) return false;
    const covered = new Set(
      (certificate.subjectAltName ?? "").split(", ").map((name) => name.replace(/^[^:]+:/, "")),
    );
    return (
      certificate.checkPrivateKey(createPrivateKey(key)) &&
      certificate.verify(authority.publicKey) &&
      daysLeft(certificate, now) >= DAYS.serverLeft &&
      covered.size === new Set(hosts).size &&
      hosts.every((host) => covered.has(host) || certificate.checkIP(host) !== undefined) &&
      (certificate.keyUsage ?? []).includes(CLIENT_AUTHENTICATION) === (forRoutes === true)
    );
  } catch {
    return false;
  }
}

const newKey = (): KeyObject => generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;

const pemOf = (key: KeyObject): string => key.export({ type: "pkcs8", format: "pem" }).toString();

const daysLeft = ({ validTo }: X509Certificate, now: number): number => (Date.parse(validTo) - now) / DAY_MS;

/** From yesterday, for clients whose clock is late. */
const validity = (now: number, days: number) => ({
  from: new Date(now - DAY_MS),
  to: new Date(now + (days - 1) * DAY_MS),
});

function certificateIn(path: string): X509Certificate | undefined {
  const pem = read(path);
  return pem === undefined ? undefined : new X509Certificate(pem);
}

function read(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
