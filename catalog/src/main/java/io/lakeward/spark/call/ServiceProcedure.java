package io.lakeward.spark.call;

import io.lakeward.rpc.v1.Argument;
import io.lakeward.rpc.v1.CallProcedureRequest;
import io.lakeward.rpc.v1.Literal;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.ArrowRows;
import io.lakeward.spark.service.Literals;
import io.lakeward.spark.service.ServiceClient;
import io.lakeward.spark.service.SessionDatabase;
import io.lakeward.spark.service.SparkUser;
import io.lakeward.sys.rpc.v1.Parameter;
import io.lakeward.sys.rpc.v1.Procedure;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/**
 * A procedure of the service. Spark matches arguments to parameters, fills in defaults and casts;
 * the service executes the CALL.
 *
 * <p>The procedure and the bound procedure are two classes. Spark treats every BoundProcedure as
 * bound already. It would then call the procedure before it has matched an argument that needs more
 * than one pass of the analyzer, such as a map of INT and BIGINT.
 */
public final class ServiceProcedure implements UnboundProcedure {

  /**
   * The argument by which a caller names the operation, where a procedure has it (proto
   * CallProcedureRequest).
   */
  private static final String IDEMPOTENCY_KEY = "idempotency_key";

  private final String catalog;
  private final String qualifiedName;
  private final Procedure procedure;
  private final List<DataType> types;
  private final ServiceClient service;

  public ServiceProcedure(String catalog, Procedure procedure, ServiceClient service) {
    this.catalog = catalog;
    this.qualifiedName = catalog + "." + procedure.getNamespace() + "." + procedure.getName();
    this.procedure = procedure;
    this.types =
        procedure.getParametersList().stream()
            .map(parameter -> DataType.fromDDL(parameter.getType()))
            .toList();
    this.service = service;
  }

  @Override
  public String name() {
    return qualifiedName;
  }

  /** The name that plans and error messages of Spark show. */
  @Override
  public String toString() {
    return qualifiedName;
  }

  /** The procedure's comment and its signature. */
  @Override
  public String description() {
    return procedure.getComment() + " Usage: CALL " + qualifiedName + "(" + signature() + ")";
  }

  private String signature() {
    return procedure.getParametersList().stream()
        .map(
            parameter ->
                parameter.getName()
                    + " "
                    + parameter.getType()
                    + (parameter.getRequired() ? "" : " => " + defaultOf(parameter)))
        .collect(Collectors.joining(", "));
  }

  @Override
  public BoundProcedure bind(StructType inputType) {
    return LakewardException.unchecked(
        () -> {
          ArgumentTypes.check(qualifiedName, inputType, parameters());
          return new Bound();
        });
  }

  /** The parameters, in the order of positional arguments. */
  ProcedureParameter[] parameters() {
    ProcedureParameter[] parameters = new ProcedureParameter[types.size()];
    for (int i = 0; i < parameters.length; i++) {
      Parameter parameter = procedure.getParameters(i);
      ProcedureParameter.Builder builder =
          ProcedureParameter.in(parameter.getName(), types.get(i)).comment(parameter.getComment());
      parameters[i] =
          (parameter.getRequired() ? builder : builder.defaultValue(defaultOf(parameter))).build();
    }
    return parameters;
  }

  private static String defaultOf(Parameter parameter) {
    return parameter.hasDefaultValue() ? parameter.getDefaultValue() : "NULL";
  }

  /** The columns of the answer. Spark 3.5 must know them before the CALL. */
  StructType answer() {
    return LakewardException.unchecked(
        () -> ArrowRows.schema(qualifiedName, procedure.getOutputSchema().toByteArray()));
  }

  private CallProcedureRequest request(InternalRow input) throws LakewardException {
    CallProcedureRequest.Builder request =
        CallProcedureRequest.newBuilder()
            .setName(procedure.getName())
            .setCaller(SparkUser.current())
            .setCatalog(catalog)
            .setDatabase(SessionDatabase.of(catalog));
    for (int i = 0; i < types.size(); i++) {
      Argument.Builder argument =
          Argument.newBuilder().setName(procedure.getParameters(i).getName());
      if (!input.isNullAt(i)) {
        argument.setValue(literal(i, input));
      }
      if (argument.getName().equals(IDEMPOTENCY_KEY)) {
        request.setIdempotencyKey(
            argument.hasValue() ? argument.getValue().getText() : IdempotencyKeys.ofStatement());
      }
      request.addArguments(argument);
    }
    return request.build();
  }

  private Literal literal(int index, InternalRow input) throws LakewardException {
    DataType type = types.get(index);
    return Literals.of(input.get(index, type), type)
        .orElseThrow(
            () ->
                new LakewardException(
                    "the argument %s of %s has the type %s%s"
                        .formatted(
                            procedure.getParameters(index).getName(),
                            qualifiedName,
                            type.sql(),
                            type instanceof MapType
                                ? " and a NULL in it"
                                : ", which this version of the plugin cannot send")));
  }

  private final class Bound implements BoundProcedure {

    @Override
    public String name() {
      return qualifiedName;
    }

    @Override
    public String toString() {
      return qualifiedName;
    }

    @Override
    public String description() {
      return ServiceProcedure.this.description();
    }

    @Override
    public ProcedureParameter[] parameters() {
      return ServiceProcedure.this.parameters();
    }

    /** False: a CALL has effects, so Spark must neither fold nor repeat it. */
    @Override
    public boolean isDeterministic() {
      return false;
    }

    @Override
    public Iterator<Scan> call(InternalRow input) {
      Scan rows =
          LakewardException.<Scan>unchecked(
              () -> service.callProcedure(SparkUser.served(), request(input)));
      return List.of(rows).iterator();
    }
  }
}
