// Certificates for tests of TLS: PEM files in one folder, named after their holder.

import { execFileSync } from "node:child_process";

const openssl = (dir: string, args: readonly string[]) =>
  execFileSync("openssl", args, { cwd: dir, stdio: "pipe" });

/** Writes `<name>.pem` and `<name>.key`. */
export function makeAuthority(dir: string, name: string): void {
  const made = `req -x509 -newkey ed25519 -nodes -keyout ${name}.key -out ${name}.pem -days 1 -subj /CN=${name}`;
  openssl(dir, made.split(" "));
}

/** Writes `<name>.pem`, signed by `ca`, and `<name>.key`. A certificate of 0 days has expired. */
export function makeCertificate(
  dir: string,
  name: string,
  { names = "DNS:localhost", days = 1 }: { readonly names?: string; readonly days?: number } = {},
): void {
  const request = `req -newkey ed25519 -nodes -keyout ${name}.key -out ${name}.csr -subj /CN=${name}`;
  openssl(dir, [...request.split(" "), "-addext", `subjectAltName=${names}`]);
  const signed = `x509 -req -in ${name}.csr -CA ca.pem -CAkey ca.key -out ${name}.pem -days ${days} -copy_extensions copy`;
  openssl(dir, signed.split(" "));
}
