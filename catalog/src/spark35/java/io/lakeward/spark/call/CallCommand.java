package io.lakeward.spark.call;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.FunctionSignature;
import org.apache.spark.sql.catalyst.plans.logical.InputParameter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.NamedParametersSupport;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.command.RunnableCommand;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.StructType;
import scala.Enumeration;
import scala.Function1;
import scala.Option;
import scala.collection.IndexedSeq;
import scala.collection.JavaConverters;
import scala.collection.Seq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

/**
 * CALL of a procedure. Spark executes a command exactly once for each statement, and never for a
 * plan that it only shows. Its child computes the arguments, one column for each parameter. Public,
 * since Spark copies nodes by reflection.
 */
public final class CallCommand extends LogicalPlan implements RunnableCommand {

  private final ServiceProcedure procedure;
  private final Seq<Attribute> output;
  private final LogicalPlan arguments;

  /** The parameters are the elements of the product: Spark copies a node with them. */
  public CallCommand(ServiceProcedure procedure, Seq<Attribute> output, LogicalPlan arguments) {
    this.procedure = procedure;
    this.output = output;
    this.arguments = arguments;
  }

  /**
   * A CALL with these arguments, positional and named ones, whose answer has the columns {@code
   * answer}. Throws Spark's errors for arguments that fit no parameter, and for required parameters
   * without an argument.
   */
  static CallCommand of(
      ServiceProcedure procedure,
      Seq<Expression> arguments,
      ParserInterface parser,
      StructType answer)
      throws ParseException {
    ProcedureParameter[] parameters = procedure.parameters();
    List<InputParameter> signature = new ArrayList<>();
    for (ProcedureParameter parameter : parameters) {
      Option<Expression> value =
          parameter.defaultValue() == null
              ? Option.empty()
              : Option.apply(parser.parseExpression(parameter.defaultValue()));
      signature.add(new InputParameter(parameter.name(), value));
    }
    List<Expression> ordered =
        JavaConverters.seqAsJavaList(
            NamedParametersSupport.defaultRearrange(
                new FunctionSignature(seq(signature)),
                spelled(arguments, parameters),
                procedure.name()));
    List<NamedExpression> columns = new ArrayList<>();
    for (int i = 0; i < parameters.length; i++) {
      columns.add(column(ordered.get(i), parameters[i].name()));
    }
    LogicalPlan oneRow =
        new LocalRelation(seq(List.of()), seq(List.of(InternalRow.empty())), false);
    return new CallCommand(
        procedure,
        seq(attributes(answer)),
        new Project(seq(columns), oneRow));
  }

  /** The arguments, with names as the parameters are spelled: names match in any case. */
  private static Seq<Expression> spelled(
      Seq<Expression> arguments, ProcedureParameter[] parameters) {
    List<Expression> spelled = new ArrayList<>(JavaConverters.seqAsJavaList(arguments));
    for (ProcedureParameter parameter : parameters) {
      spelled.replaceAll(
          argument ->
              argument instanceof NamedArgumentExpression named
                      && named.key().equalsIgnoreCase(parameter.name())
                  ? new NamedArgumentExpression(parameter.name(), named.value())
                  : argument);
    }
    return seq(spelled);
  }

  @Override
  public Seq<Row> run(SparkSession session) {
    StructType types = arguments.schema();
    BoundProcedure bound = procedure.bind(types);
    Iterator<Scan> scans = bound.call(values(session, bound.parameters()));
    List<Row> rows = new ArrayList<>();
    while (scans.hasNext()) {
      LocalScan scan = (LocalScan) scans.next();
      Function1<Object, Object> toRow =
          CatalystTypeConverters.createToScalaConverter(scan.readSchema());
      for (InternalRow row : scan.rows()) {
        rows.add((Row) toRow.apply(row));
      }
    }
    return seq(rows);
  }

  /**
   * The arguments in the types of the parameters. A value that does not fit is an error in every
   * mode of the session: NULL in its place would be another CALL.
   */
  private InternalRow values(SparkSession session, ProcedureParameter[] parameters) {
    List<Attribute> computed = JavaConverters.seqAsJavaList(arguments.output());
    String zone = session.sessionState().conf().sessionLocalTimeZone();
    List<NamedExpression> columns = new ArrayList<>();
    for (int i = 0; i < parameters.length; i++) {
      Cast cast =
          new Cast(
              computed.get(i), parameters[i].dataType(), Option.apply(zone), EvalMode.ANSI());
      columns.add(column(cast, parameters[i].name()));
    }
    LogicalPlan plan = new Project(seq(columns), arguments);
    return Dataset.ofRows(session, plan).queryExecution().executedPlan().executeCollect()[0];
  }

  private static NamedExpression column(Expression value, String name) {
    return new Alias(
        value, name, NamedExpression.newExprId(), seq(List.of()), Option.empty(), seq(List.of()));
  }

  private static List<AttributeReference> attributes(StructType schema) {
    return JavaConverters.seqAsJavaList(DataTypeUtils.toAttributes(schema));
  }

  /** A sequence of the items. Scala's sequences are covariant, which Java cannot express. */
  @SuppressWarnings("unchecked")
  private static <T> Seq<T> seq(List<? extends T> items) {
    return (Seq<T>) JavaConverters.asScalaBuffer(items).toList();
  }

  @Override
  public Seq<Attribute> output() {
    return output;
  }

  /** The columns of the answer, which Spark would otherwise look for in the arguments. */
  @Override
  public AttributeSet producedAttributes() {
    return outputSet();
  }

  @Override
  public Statistics stats() {
    return RunnableCommand.super.stats();
  }

  @Override
  public Seq<Enumeration.Value> nodePatterns() {
    return seq(List.of(TreePattern.COMMAND()));
  }

  /** Ignored: Scala's classes get their {@link #nodePatterns} by this method. */
  @Override
  public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(
      Seq<Enumeration.Value> patterns) {}

  @Override
  public Map<String, SQLMetric> metrics() {
    return noMetrics();
  }

  @SuppressWarnings("unchecked")
  private static Map<String, SQLMetric> noMetrics() {
    return (Map<String, SQLMetric>) (Map<?, ?>) Map$.MODULE$.empty();
  }

  @Override
  public String nodeName() {
    return "CallProcedure";
  }

  // The methods of a node with one child of Spark's trees.

  @Override
  public Seq<LogicalPlan> children() {
    return seq(List.of(arguments));
  }

  @Override
  public LogicalPlan mapChildren(Function1<LogicalPlan, LogicalPlan> change) {
    LogicalPlan changed = change.apply(arguments);
    return changed.fastEquals(arguments) ? this : new CallCommand(procedure, output, changed);
  }

  @Override
  public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
    return new CallCommand(procedure, output, children.apply(0));
  }

  @Override
  public int productArity() {
    return 3;
  }

  @Override
  public Object productElement(int index) {
    return switch (index) {
      case 0 -> procedure;
      case 1 -> output;
      default -> arguments;
    };
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof CallCommand;
  }

  /** Whether two nodes have equal parts. Spark analyzes a plan until no rule changes it. */
  @Override
  public boolean equals(Object other) {
    return other instanceof CallCommand call
        && procedure == call.procedure
        && output.equals(call.output)
        && arguments.equals(call.arguments);
  }

  @Override
  public int hashCode() {
    return Objects.hash(procedure, output, arguments);
  }
}
