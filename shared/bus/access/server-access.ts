/** The part of the configuration of a nats-server that says whose credentials it accepts. It holds no secret. */
import type { ServerClaims } from "./claims.ts";

export function accessConfig(claims: ServerClaims, claimsDir: string): string {
  return `operator: ${claims.operator}
system_account: ${claims.system.name}
resolver {
  type: full
  dir: ${JSON.stringify(claimsDir)}
  allow_delete: false
}
resolver_preload {
  ${claims.system.name}: ${claims.system.jwt}
  ${claims.account.name}: ${claims.account.jwt}
}
`;
}
