/** The part of the configuration of a nats-server that says whose credentials it accepts. It holds no secret. */
import type { CalloutClaims, ServerClaims } from "./claims.ts";

/** With the server's default of 2 s, valid credentials of a program on a busy machine are refused for being late. */
const LOGIN_S = 10;

/** `callout`: the claims for a signing service, if there is one. */
export function accessConfig(claims: ServerClaims, claimsDir: string, callout?: CalloutClaims): string {
  return `authorization { timeout: ${LOGIN_S} }
operator: ${claims.operator}
system_account: ${claims.system.name}
resolver {
  type: full
  dir: ${JSON.stringify(claimsDir)}
  allow_delete: false
}
resolver_preload {
  ${claims.system.name}: ${claims.system.jwt}
  ${claims.account.name}: ${claims.account.jwt}
${callout === undefined ? "" : `  ${callout.account.name}: ${callout.account.jwt}\n`}}
${callout === undefined ? "" : `default_sentinel: ${callout.sentinel}\n`}`;
}
