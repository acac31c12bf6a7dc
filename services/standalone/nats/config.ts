/**
 * The configuration of the standalone fleet's own nats-server: on loopback unless the settings say otherwise, and every
 * acknowledged message on disk (`sync_interval: always`). By default the server acknowledges first and syncs every two minutes.
 */
import type { ServerClaims } from "../../../shared/bus/access/claims.ts";
import { accessConfig } from "../../../shared/bus/access/server-access.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";

export interface NatsConfig {
  readonly host: string;
  /** -1 takes any free port. */
  readonly port: number;
  /** Absent: the listener has no TLS. */
  readonly tls?: { readonly certFile: string; readonly keyFile: string };
  /** Clients see it before they have given credentials. */
  readonly name: string;
  readonly storeDir: string;
  readonly portsDir: string;
  readonly storeBytesMax: number;
  readonly maxPayloadBytes?: number;
  /** The server finds the key of its streams in this variable. Absent: it does not encrypt them. */
  readonly streamKeyVariable?: string;
  /** Absent: every local user may connect and do everything. */
  readonly access?: { readonly claims: ServerClaims; readonly claimsDir: string };
}

/** The server's default of 2 s is short for a burst of handshakes on a busy machine. */
const HANDSHAKE_S = 10;
/** Room for the answers of a thousand callers, so that the server does not drop a client as too slow after one burst. */
const CLIENT_BUFFER_BYTES = 256 * 1024 * 1024;

export function natsConfig(o: NatsConfig): string {
  return `# Written by Fleet at every start; changes here are lost.
server_name: ${JSON.stringify(o.name)}
host: ${JSON.stringify(o.host)}
port: ${o.port}
http: "127.0.0.1:-1"
ports_file_dir: ${JSON.stringify(o.portsDir)}
max_payload: ${o.maxPayloadBytes ?? LIMITS.message_bytes_max}
max_pending: ${CLIENT_BUFFER_BYTES}
# A burst may keep a client busy for a while; dropping the client would lose every request in progress.
write_deadline: "60s"
logtime: false
${o.tls === undefined ? "" : tlsConfig(o.tls)}jetstream {
  store_dir: ${JSON.stringify(o.storeDir)}
  sync_interval: always
  max_file_store: ${o.storeBytesMax}
${o.streamKeyVariable === undefined ? "" : encryptionConfig(o.streamKeyVariable)}}
${o.access === undefined ? "" : accessConfig(o.access.claims, o.access.claimsDir)}`;
}

/** ChaCha20: the server has it in assembler for every usual processor. */
function encryptionConfig(variable: string): string {
  return `  cipher: chachapoly
  key: $${variable}
`;
}

function tlsConfig({ certFile, keyFile }: NonNullable<NatsConfig["tls"]>): string {
  return `tls {
  cert_file: ${JSON.stringify(certFile)}
  key_file: ${JSON.stringify(keyFile)}
  min_version: "1.2"
  timeout: ${HANDSHAKE_S}
}
`;
}
