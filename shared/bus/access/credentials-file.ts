/** The content of a credentials file: the claims of its holder, signed by the fleet, and the seed of the holder's key. */
import type { Authenticator } from "@nats-io/transport-node";
import { keyPairOf } from "./key-pair.ts";

const JWT = /-+BEGIN NATS USER JWT-+\s+([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)\s/;
const SEED = /-+BEGIN USER NKEY SEED-+\s+(SU[A-Z2-7]+)\s/;

/** undefined: the text has none. */
export function userClaimsOf(text: string): string | undefined {
  return JWT.exec(text)?.[1];
}

/** Answers the challenge of the server at each connect with the credentials that `read` returns then. */
export function credentialsAuthenticator(read: () => string): Authenticator {
  return (nonce) => {
    const text = read();
    const [jwt, seed] = [userClaimsOf(text), SEED.exec(text)?.[1]];
    if (jwt === undefined || seed === undefined) throw new Error("unable to parse credentials");
    const pair = keyPairOf(Buffer.from(seed));
    const sig = Buffer.from(pair.sign(Buffer.from(nonce ?? ""))).toString("base64");
    return { jwt, nkey: pair.getPublicKey(), sig };
  };
}
