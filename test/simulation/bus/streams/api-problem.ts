/** The errors of JetStream that the simulated server answers with, by their codes. */

export class ApiProblem extends Error {
  readonly code: number;
  readonly errCode: number;

  constructor(code: number, errCode: number, description: string) {
    super(description);
    this.code = code;
    this.errCode = errCode;
  }

  toJSON(): object {
    return { code: this.code, err_code: this.errCode, description: this.message };
  }
}

export const PROBLEMS = {
  streamNotFound: () => new ApiProblem(404, 10059, "stream not found"),
  streamExists: () => new ApiProblem(400, 10058, "stream name already in use with a different configuration"),
  subjectsOverlap: () => new ApiProblem(400, 10065, "subjects overlap with an existing stream"),
  noStorage: () => new ApiProblem(500, 10047, "insufficient storage resources available"),
  consumerNotFound: () => new ApiProblem(404, 10014, "consumer not found"),
  consumerExists: () => new ApiProblem(400, 10148, "consumer already exists"),
  consumerMissing: () => new ApiProblem(400, 10149, "consumer does not exist"),
  needsExplicitAck: () => new ApiProblem(400, 10098, "workqueue stream requires explicit ack"),
  needsFilters: () =>
    new ApiProblem(400, 10099, "multiple non-filtered consumers not allowed on workqueue stream"),
  filterTaken: () => new ApiProblem(400, 10100, "filtered consumer not unique on workqueue stream"),
  needsDeliverAll: () => new ApiProblem(400, 10101, "consumer must be deliver all on workqueue stream"),
  noMessage: () => new ApiProblem(404, 10037, "no message found"),
  messageNotDeleted: (reason: string) => new ApiProblem(500, 10057, reason),
  sequenceNotFound: (seq: number) => new ApiProblem(400, 10043, `sequence ${seq} not found`),
  purgeDenied: () => new ApiProblem(500, 10110, "stream purge not permitted"),
  tooLarge: () => new ApiProblem(400, 10054, "message size exceeds maximum allowed"),
  full: () => new ApiProblem(503, 10077, "maximum bytes exceeded"),
  wrongLastSequence: (last: number) => new ApiProblem(400, 10071, `wrong last sequence: ${last}`),
  rollupDenied: () => new ApiProblem(500, 10111, "rollup not permitted"),
  batchDisabled: () => new ApiProblem(400, 10174, "atomic publish is disabled"),
  batchIncomplete: () => new ApiProblem(400, 10176, "atomic publish batch is incomplete"),
  batchDuplicate: () => new ApiProblem(400, 10201, "atomic publish batch contains duplicate message id"),
  badRequest: (reason: string) => new ApiProblem(400, 10003, reason),
} as const;
