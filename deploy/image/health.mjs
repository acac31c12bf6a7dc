// The health check of every service in the image: ready, or not. Exit code 1 counts as a failure.
import { request } from "node:http";

/** Less than the time-out of the check, so that its end has a reason. */
const ANSWER_MS = 2_500;

const end = (reason) => {
  if (reason !== undefined) console.error(reason);
  process.exit(reason === undefined ? 0 : 1);
};
// FLEET_OPS_HOST may name another address. One that is not 0.0.0.0 is the only one that answers.
const given = process.env.FLEET_OPS_HOST;
const host =
  given === undefined || given === "" || given === "0.0.0.0" || given === "::" ? "127.0.0.1" : given;
const url = { host, port: process.env.FLEET_OPS_PORT, path: "/readyz", timeout: ANSWER_MS };
request(url, (answer) => {
  let body = "";
  answer.setEncoding("utf8").on("data", (text) => {
    body += text;
  });
  answer.on("end", () => end(answer.statusCode === 200 ? undefined : `${answer.statusCode} ${body}`));
})
  .on("timeout", () => end(`no answer in ${ANSWER_MS} ms`))
  .on("error", (error) => end(error.message))
  .end();
